// The examples to click: the first of each tab is filled in and answered when the tab is first shown.

export const READ = {
  'town letter': [`\
The Old Mill Bridge will close to all traffic at six in the morning on Monday, 3 March, and reopen in November. Divers found cracks in four of its eleven stone piers last October. Something had to be done about it.

Buses 4 and 17 will run over the ring road and stop at Station Square every ten minutes. Cyclists can use the wooden footbridge at Fisher Lane, two hundred metres upstream. Other arrangements may be possible in some cases.

The repair costs 2.4 million euros, of which the state of Styria pays sixty percent. We are aware that this is not easy for everyone. Shops on Mill Street can apply for up to 5,000 euros in compensation until 30 April. We will do what we can, and things will get better afterwards.

Civil engineer Maria Huber answers questions about the building site in the town library every Thursday at five. Please feel free to get in touch with us at any time.`],
  'job offer': [`\
We are a dynamic company with a passion for excellence. Our people make the difference.

You will work on the brake control of freight trains, in C++ and Rust, together with four engineers in Linz. You bring the right attitude and think outside the box. You have written software for embedded ARM processors for at least three years, and you read circuit diagrams. Experience in a similar role is a plus.

We offer many benefits. The salary is 68,000 euros a year, with thirty days of holiday and a railway pass for all of Austria.

Does this sound like you? Send your application to jobs@example.org by 15 June.`],
  'horoscope': [`\
This week brings change, and change brings opportunity. Someone close to you may surprise you. Venus enters Taurus on Tuesday evening and stands eleven degrees above Jupiter at sunset.

Trust your feelings, but do not rush anything. The Lyrid meteors peak on the night of 22 April, when up to eighteen an hour can be seen from dark places in the northern hemisphere. Good things come to those who wait.

On Friday the crescent moon passes two degrees south of the Pleiades, best seen with binoculars. It will be what you make of it.`],
};

export const COMPARE = {
  'other words': ['The meeting was moved to Friday.', 'The meeting will now take place on Friday.'],
  'one is vaguer': ['The bank raised its interest rate again this year.', 'They have put that up again.'],
  'one word differs': ['The meeting was moved to Tuesday.', 'The meeting was moved to Thursday.'],
  'unrelated': ['The cat sleeps on the sofa.', 'Shares fell sharply on Monday.'],
};

export const MAP = {
  'five topics': [`\
A street musician plays the guitar on the corner.
The guitarist plays her music in the subway every evening.
The violinist tuned her instrument before the concert.
Somebody plays some kind of music somewhere.
Heavy rain is expected along the coast late tonight.
Heavy snow closed the mountain pass for three days in January.
The storm brought rain and hail to the whole valley.
It may rain or snow a bit later on.
The bank raised its interest rate to four percent.
The central bank lowered its interest rate by a quarter point.
Shares of the carmaker fell by four percent on Monday.
Prices may change at some point.
Simmer the tomatoes with garlic until the sauce is thick.
Stir butter, garlic and parsley into the sauce.
Knead the dough for ten minutes and bake it at 220 degrees.
Cook it until it is done.
The goalkeeper saved two penalties in the final.
The striker scored twice in the first half of the match.
The team lost the match after extra time.
They played quite well.`],
  'questions to a helpdesk': [`\
How do I reset my password?
I forgot my password and cannot log in.
My account is locked after three wrong passwords.
I cannot get in.
When will my parcel arrive?
The tracking number of my parcel does not work.
Can you deliver my parcel to a locker in Graz?
It has not come yet.
How do I return shoes that do not fit?
Is the label for a return free of charge?
The jacket came with a broken zip, so I return it.
I do not want it any more.`],
};

const FAQ = `\
To reset your password, open Settings, choose Security, and follow the link that we send you.
We ship to all of Europe within five working days; the tracking number comes by e-mail.
You may send back any item within thirty days. The label for it is free.
Our office is in Lyon, next to the station, and is open from nine to five.
Invoices are in your account below Orders, as PDF files.
You can pay by card, by bank transfer, or on delivery.
To close your account, write to us from the address that it is registered with.`;

export const SEARCH = {
  'a question with an answer': ['I forgot my login, what now?', FAQ],
  'a question without': ['Who won the cup in 1998?', FAQ],
};

export const CLASSIFY = {
  'sport, money, weather': [`\
The goalkeeper was injured.
Fog will clear by noon.
The club sold its best player for forty million.`, `\
sport: The match ended in a draw after extra time.
sport: She won the final set in a tie-break.
sport: Their striker scored twice in the first half.
sport: The coach praised his goalkeeper.
money: Shares of the carmaker fell on Monday.
money: The bank raised its interest rate again.
money: Profits rose by a tenth this quarter.
money: Investors sold government bonds.
weather: Heavy rain is expected along the coast.
weather: Snow closed the mountain pass for days.
weather: It will be sunny and warm on Sunday.
weather: A storm is moving in from the west.`],
  'what a customer wants': [`\
I forgot my login.
Where is my package?
It came broken and too late.`, `\
password: How do I reset my password?
password: I cannot log in any more.
password: My account is locked.
delivery: When will my parcel arrive?
delivery: The tracking number does not work.
delivery: My order has not come yet.
return: I want to send these shoes back.
return: When do I get my money back?
return: The jacket is too small, can I exchange it?`],
};
